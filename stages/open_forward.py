"""Step 7a: the plan's road on this worker: the model, and on a GPU its graphs."""

from headrace.schemas.plan import PlanHeader
from headrace.stages.cuda import Cuda
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.forward import Forward, Runner
from headrace.stages.model_folder import ModelFolder
from headrace.stages.packed_forward import pack_forward
from headrace.stages.trial import Load, pad_id


def open_forward(header: PlanHeader, model: ModelFolder, load: Load) -> Runner:
    """Load the model and, on a GPU, capture its graphs before any shard is read."""
    road = header.road
    inner = Forward(load(road.precision), road.device, header.result, pad_id(model))
    if road.layout == "packed":
        inner = pack_forward(inner)
    if road.device == "cpu":
        return inner
    runner = CudaForward(inner, Cuda())
    if road.execution == "graphs":
        runner.warm_up(header.grid.sizes)
    return runner
