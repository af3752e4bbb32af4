"""What outlives a kernel: the logbook of turns, and the rate guard's memory."""

from hermes_nb.logbook.book import Logbook
from hermes_nb.logbook.guardfile import GuardFile
from hermes_nb.logbook.lease import Lease
from hermes_nb.logbook.records import ConversationRecord, Found, TurnRecord
from hermes_nb.logbook.sink import LogbookSink

__all__ = ["ConversationRecord", "Found", "GuardFile", "Lease", "Logbook", "LogbookSink", "TurnRecord"]
