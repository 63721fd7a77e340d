"""Compile suites: what the compiler makes of GPU kernels for GPUs that need not be there. Nothing here is timed."""

from bancada.compiled.declare import CompileContender, CompileSuite, Launch
from bancada.compiled.targets import TARGETS, Target

__all__ = ["TARGETS", "CompileContender", "CompileSuite", "Launch", "Target"]
