"""PyTorch's switches, under its names; results are the same in every run, whatever they say."""

from types import SimpleNamespace

from minidp.backend.cpu import switches


class Cpu:
    """Choices for kernels on the CPU."""

    @property
    def winograd(self) -> bool:
        """Whether float32 convolutions of 3 x 3 and 5 x 5 may use Winograd's transforms.

        They take a third to a half of the time. Results have relative errors of 1 to 4e-6 (rms)
        instead of 2 to 7e-7, and one value that is not finite spoils its neighbours up to seven
        pixels away. Change it between steps; captured steps keep what they were recorded with.
        """
        return bool(switches().winograd)

    @winograd.setter
    def winograd(self, value: bool) -> None:
        switches().winograd = bool(value)


cpu = Cpu()
cudnn = SimpleNamespace(enabled=False, benchmark=False, deterministic=True)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
