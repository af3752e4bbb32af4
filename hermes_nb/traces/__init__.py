"""How turns went: frames, trees, pictures and files, of our own turns and of other tools' traces.

pandas and pyarrow are loaded with the first frame, matplotlib with the first picture.
"""

from hermes_nb.traces.drawing import span_tree
from hermes_nb.traces.many import Traces, concat, convert, load
from hermes_nb.traces.trace import Trace

__all__ = ["Trace", "Traces", "concat", "convert", "load", "span_tree"]
