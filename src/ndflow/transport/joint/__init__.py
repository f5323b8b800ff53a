"""Several channels together: maps of each channel first, then a joint flow for what these leave."""

from ndflow.transport.joint.channelwise import Channelwise
from ndflow.transport.joint.joint_map import REGULARISATION, JointFigures, JointMap, joint_map
from ndflow.transport.joint.meshed import Meshed, meshed
from ndflow.transport.joint.sliced import sliced_distance

__all__ = [
    "REGULARISATION",
    "Channelwise",
    "JointFigures",
    "JointMap",
    "Meshed",
    "joint_map",
    "meshed",
    "sliced_distance",
]
