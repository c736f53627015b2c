"""Run by the system's Python, which has GStreamer's bindings (`gst_helper.py regions LAUNCH...` prints
the regions of every buffer that reaches the sink named `end`; `gst_helper.py rtsp LAUNCH` serves it
as RTSP and prints the port)."""

import json
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GLib, Gst, GstVideo  # noqa: E402


def regions(launch):
    pipeline = Gst.parse_launch(launch)
    width = height = 0

    def seen(pad, info):
        nonlocal width, height
        caps = pad.get_current_caps().get_structure(0)
        width, height = caps.get_int("width")[1], caps.get_int("height")[1]
        buffer, found, at = info.get_buffer(), [], 0
        while meta := GstVideo.buffer_get_video_region_of_interest_meta_id(buffer, at):
            at += 1
            said = meta.get_param("fermata")
            found.append({"label": GLib.quark_to_string(meta.roi_type),
                          "box": [meta.x / width, meta.y / height, (meta.x + meta.w) / width,
                                  (meta.y + meta.h) / height],
                          "confidence": said.get_double("confidence")[1],
                          "size": said.get_uint("input-size")[1],
                          "frame": said.get_uint64("frame")[1]})
        print(json.dumps(found), flush=True)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, seen)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(
        60 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message is None or message.type == Gst.MessageType.ERROR:
        sys.exit("no end within a minute" if message is None else message.parse_error()[0].message)


def rtsp(launch):
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GstRtspServer
    server = GstRtspServer.RTSPServer()
    server.set_service("0")
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(launch)
    factory.set_shared(True)
    server.get_mount_points().add_factory("/live", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


Gst.init(None)
{"regions": regions, "rtsp": rtsp}[sys.argv[1]](" ".join(sys.argv[2:]))
