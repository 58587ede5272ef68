"""Offer devices to a cluster, so that hasten tune --cluster can use them.

A worker joins a Dask scheduler (start one with: dask scheduler) and runs whole jobs on its devices, one at a time on
each. It keeps models and data by their content, and starts again when it dies. It listens on this machine only, unless
--host gives another address: anyone who reaches it can run code here, so use TLS outside of a trusted network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.output import complain

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten worker tcp://127.0.0.1:8786
hasten worker tcp://127.0.0.1:8786 --device desk=ssh://pi@desk.lab
hasten worker tls://lab:8786 --host 10.0.0.7 --tls-ca ca.pem \\
  --tls-cert me.pem --tls-key me.key
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("scheduler", metavar="ADDRESS", help="the scheduler, such as tcp://127.0.0.1:8786")
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="TARGET or NAME=TARGET to offer; may be repeated (default: local)",
    )
    parser.add_argument("--name", default="", help="name of this worker (default: that of the machine)")
    parser.add_argument("--host", default="", metavar="IP", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--folder", default="", metavar="F", help="where to keep files (default: hasten's cache folder)"
    )
    parser.add_argument(
        "--time-limit",
        type=options.positive_float,
        default=120.0,
        metavar="S",
        help="time limit for one request to a runner, in seconds (default: 120)",
    )
    options.add_tls(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the scheduler ends, or the user."""
    from hasten import api
    from hasten.targets.base import Limits

    request = api.WorkerRequest(
        arguments.scheduler,
        tuple(arguments.device) or ("local",),
        arguments.name,
        arguments.host,
        arguments.folder,
        options.tls_from(arguments),
        Limits(arguments.time_limit),
    )
    api.serve_worker(request, lambda text: complain(text, ""))
    return 0
