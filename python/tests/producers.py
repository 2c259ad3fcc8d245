"""A stand-in for an array on a device, for the tests of streams. Its memory is never read."""

import tenon_probe as probe


class Producer:
    """An array on a device that records the streams that it was asked for."""

    def __init__(self, device_type=2, device_id=0, error=None):
        self.asked, self.error = [], error
        self.inner = probe.export(probe.new("f32", (4, 2), None, 0, 0, device_type, device_id))

    def __dlpack__(self, *, stream="nothing", max_version=None, copy=None):
        self.asked.append(stream)
        if self.error:
            raise self.error
        return self.inner.__dlpack__(stream=-1, max_version=max_version, copy=copy)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()

    def since(self):
        """The streams that it was asked for since the last call."""
        asked, self.asked = self.asked, []
        return asked


def through(producer, kind=probe.TENSOR):
    """The producer's memory as a tenon.Tensor, without the streams that the import asked for."""
    made = probe.through(producer, kind)
    producer.since()
    return made
