"""Two tones in a sound of one second, found by the spectrum."""

import pathlib

import numpy as np
import tenon

fft = tenon.compile(pathlib.Path(__file__).with_name("fft.c"), flags=["-lm"])
seconds = np.arange(8192) / 8192
sound = (np.sin(2 * np.pi * 440 * seconds) + 0.5 * np.sin(2 * np.pi * 1000 * seconds)).astype("float32")
power = fft.spectrum(sound)
print("the two tones, in Hz:", sorted(np.argsort(power)[-2:].tolist()))
print("as numpy.fft:", bool(np.allclose(power, np.abs(np.fft.rfft(sound)), atol=1)))
for hertz in range(0, 1200, 100):
    bar = "#" * int(power[hertz : hertz + 100].max() / 100)
    print(f"{hertz:5} Hz {bar}".rstrip())
