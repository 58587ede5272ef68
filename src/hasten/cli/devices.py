"""List the devices that models can run on: this machine, and those that your file of targets names.

The file is ~/.config/hasten/targets.toml, with a section for each device: [kitchen-pi], address = "ssh://pi@host". All
devices are asked at once; one that does not answer costs a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import complain
from hasten.cli.presenting import present
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten devices
hasten devices kitchen-pi ssh://pi@192.168.1.20 --json
hasten devices kitchen-pi --setup
hasten devices --clean
hasten devices --cluster tcp://127.0.0.1:8786
"""
_TROUBLE: Final = 4


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "names", nargs="*", metavar="DEVICE", help="names or addresses of devices (default: all that are known)"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--setup", action="store_true", help="install LiteRT on the device, in an environment of hasten's own"
    )
    action.add_argument(
        "--clean", action="store_true", help="remove all that hasten has stored on the devices, also what --setup did"
    )
    options.add_cluster(parser, "list the devices that the workers of this scheduler offer")
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Ask each device and show; or set up, or clean."""
    from hasten import api

    if arguments.cluster:
        if arguments.setup or arguments.clean:
            raise UsageError("--setup and --clean do not reach into a cluster.", "Give the device's name or address.")
        return present(arguments, options.fleet_from(arguments, arguments.names).devices())
    if arguments.setup and len(arguments.names) != 1:
        raise UsageError("--setup installs on one device.", "Example: hasten devices kitchen-pi --setup")
    if arguments.setup:
        complain(f"Installing LiteRT on {arguments.names[0]}, in an environment of hasten's own there.", "")
        with progress_bar("installing") as progress:
            ready = api.set_up_device(arguments.names[0], progress=progress)
        return present(arguments, ready)
    if arguments.clean:
        with progress_bar("cleaning") as progress:
            cleaned = api.clean_devices(arguments.names, progress=progress)
        shown = present(arguments, cleaned)
        return _TROUBLE if any(device.why.facts for device in cleaned.devices) else shown
    with progress_bar("asking") as progress:
        found = api.devices(arguments.names, progress=progress)
    shown = present(arguments, found)
    # Of devices that were asked for by name, each should be there.
    return _TROUBLE if arguments.names and any(device.machine is None for device in found.devices) else shown
