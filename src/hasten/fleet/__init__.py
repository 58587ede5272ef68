"""Many devices at once, by Dask distributed (the extra `cluster`): `hasten worker` and `hasten tune --cluster`.

The design in short.
- The search stays the one search of `search/`. It runs whole, next to each device: a *job* is a whole tuning, a whole
  race, a share of an evaluation or one variant to make; never a single block, because a task costs the scheduler
  milliseconds. Whoever adds a device adds a `Target`, and nothing here.
- A worker (`worker.py`) offers each of its devices as a resource of its own name, one unit each, so that a device has
  one job at a time. A worker whose device is the machine itself has that machine's cores as a resource, too: nothing is
  made there while something is timed. A trial runs in a runner's process, as everywhere: what crashes costs a trial,
  and never the worker.
- What a job needs travels by content (`parcel.py`): a worker keeps files by their SHA-256 and is sent those that it
  lacks, once. A job that finds one missing says so, is supplied, and runs again.
- The client (`cluster.py`) takes each result as it comes and saves it at once. A job whose worker died runs again; a
  tuning goes on from the session on the worker's disk, so that it loses the trial under way. A device that nobody
  offers any more is a failure of that device only.
- `tuning.py` is the fleet's `tune`: variants are made once for all, spread over the workers; then a tuning for each
  device; then each device's choice is raced on all others, always against the original on that device. `rules.py` says
  which single choice serves all of them: by the worst case, and by weights. Ratios are formed within a device; times of
  two devices never meet in one figure.
- `spreading.py` lends the workers to a search on this machine (`hasten quantize --cluster`): it evaluates on all
  devices that compute alike, and makes variants on all workers.
- Requests are hasten's own records, pickled, because both sides run the same release (checked first). Results are plain
  data and files, as a session holds them.
"""

from hasten.fleet.view import sections
from hasten.fleet.words import PHRASES

__all__ = ["PHRASES", "sections"]
