"""One file by NORM (RFC 5740), through Debian's libnorm: the sender waits for all acknowledgements.

Usage: norm_file.py send GROUP PORT INTERFACE FILE BPS IDS
       norm_file.py receive GROUP PORT INTERFACE FOLDER ID
"""

import ctypes
import os
import sys

LIB = ctypes.CDLL("libnorm.so.1")
HANDLE, NODE = ctypes.c_void_p, ctypes.c_uint32
# Event numbers of normApi.h.
WATERMARK_COMPLETED, RX_OBJECT_COMPLETED = 4, 20
# The same blocks for every program: 100 packets of 1400 octets.
SEGMENT, BLOCK, PARITIES = 1400, 100, 32
BUFFER = 64 << 20


class Event(ctypes.Structure):
    """NormEvent."""

    _fields_ = [("type", ctypes.c_int), ("session", HANDLE), ("sender", HANDLE), ("object", HANDLE)]


def declare() -> None:
    """What the functions take and give, as in normApi.h."""
    for name, result, *arguments in (
        ("NormCreateInstance", HANDLE, ctypes.c_bool),
        ("NormCreateSession", HANDLE, HANDLE, ctypes.c_char_p, ctypes.c_uint16, NODE),
        ("NormSetMulticastInterface", ctypes.c_bool, HANDLE, ctypes.c_char_p),
        ("NormSetTxRate", None, HANDLE, ctypes.c_double),
        ("NormSetGrttEstimate", None, HANDLE, ctypes.c_double),
        ("NormSetTxSocketBuffer", ctypes.c_bool, HANDLE, ctypes.c_uint),
        ("NormSetRxSocketBuffer", ctypes.c_bool, HANDLE, ctypes.c_uint),
        ("NormAddAckingNode", ctypes.c_bool, HANDLE, NODE),
        (
            "NormStartSender",
            ctypes.c_bool,
            HANDLE,
            ctypes.c_uint16,
            ctypes.c_uint32,
            *[ctypes.c_uint16] * 3,
            ctypes.c_uint8,
        ),
        ("NormFileEnqueue", HANDLE, HANDLE, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint),
        ("NormSetWatermark", ctypes.c_bool, HANDLE, HANDLE, ctypes.c_bool),
        ("NormSetCacheDirectory", ctypes.c_bool, HANDLE, ctypes.c_char_p),
        ("NormStartReceiver", ctypes.c_bool, HANDLE, ctypes.c_uint32),
        ("NormFileRename", ctypes.c_bool, HANDLE, ctypes.c_char_p),
        ("NormGetNextEvent", ctypes.c_bool, HANDLE, ctypes.POINTER(Event), ctypes.c_bool),
    ):
        function = getattr(LIB, name)
        function.restype, function.argtypes = result, arguments


def wait(instance: int, wanted: int) -> Event:
    """The next event of a kind."""
    event = Event()
    while LIB.NormGetNextEvent(instance, ctypes.byref(event), True):
        if event.type == wanted:
            return event
    raise SystemExit("NORM stopped")


def main() -> None:
    """Sends or receives one file."""
    declare()
    role, group, port, interface, path, *more = sys.argv[1:]
    sending = role == "send"
    instance = LIB.NormCreateInstance(False)
    own = 1 if sending else int(more[0])
    session = LIB.NormCreateSession(instance, group.encode(), int(port), own)
    LIB.NormSetMulticastInterface(session, interface.encode())
    if not sending:
        LIB.NormSetCacheDirectory(instance, (path + "/").encode())
        LIB.NormStartReceiver(session, BUFFER)
        LIB.NormSetRxSocketBuffer(session, 4 << 20)
        event = wait(instance, RX_OBJECT_COMPLETED)
        LIB.NormFileRename(event.object, os.path.join(path, "file").encode())
        # Acknowledges until it is stopped.
        wait(instance, -1)
    LIB.NormSetTxRate(session, float(more[0]))
    LIB.NormSetGrttEstimate(session, 0.01)
    for node in more[1].split(","):
        LIB.NormAddAckingNode(session, int(node))
    LIB.NormStartSender(session, 1, BUFFER, SEGMENT, BLOCK, PARITIES, 0)
    LIB.NormSetTxSocketBuffer(session, 4 << 20)
    sent = LIB.NormFileEnqueue(session, path.encode(), b"file", 4)
    LIB.NormSetWatermark(session, sent, True)
    wait(instance, WATERMARK_COMPLETED)


main()
