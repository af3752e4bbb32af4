// The record of what is over, in the place of its live panel.
//
// The kernel replaces the output itself. After a page was loaded again the front end does not know any more which
// output is whose, so a live panel that is still there a moment after the end asks for the record, and puts it there.

const MOMENT = 2000; // ms in which the kernel's own update has come, if it comes at all

export class Freeze {
  constructor(model) {
    this.model = model;
    this.listener = (message) => message.kind === "record" && put(model.widget_manager, message);
    model.on("msg:custom", this.listener);
  }

  /** What is shown is over. */
  over() {
    this.timer ??= setTimeout(() => this.model.send({ kind: "record" }), MOMENT);
  }

  leave() {
    clearTimeout(this.timer);
    this.model.off("msg:custom", this.listener);
  }
}

/** Whether the kernel that told a model has ended or is being restarted: it does not know it any more then. */
export function orphaned(model) {
  return /restarting|dead|terminating/.test(model.widget_manager?.kernel?.status || "");
}

/** Replace the outputs that show this model. A front end whose notebook cannot be reached keeps the panel. */
function put(manager, { model, bundle }) {
  for (const { outputs } of manager?.context?.model?.cells ?? []) {
    for (let index = 0; index < (outputs?.length ?? 0); index++) {
      const view = outputs.get(index).data?.["application/vnd.jupyter.widget-view+json"];
      if (view?.model_id === model) outputs.set(index, { output_type: "display_data", data: bundle, metadata: {} });
    }
  }
}
