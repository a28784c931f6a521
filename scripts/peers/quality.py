"""What a viewer saw: picture quality frame by frame, freezes and broken pictures."""

import re
import statistics
import subprocess
from pathlib import Path

import numpy as np
from clip import FPS, FRAMES, HEIGHT, WIDTH, Clip, Stream

# Structural similarity costs time: one frame in this number is enough for a mean.
SSIM_EACH = 5
# A freeze of this number of frames is a stall; less is a lower frame rate.
STALL = FPS // 4
# A picture that moves but is worse than the encoder's by this much is broken.
BROKEN_DB = 6.0
# Before and after, streams start and end.
FROM, TO = 2 * FPS, FRAMES - FPS


def decode(path: Path, stream: Stream | None, first: int, video: str = "0:v") -> dict[int, np.ndarray]:
    """The pictures of a received stream by frame number; with errors concealed, as players do.

    A transport stream tells by its times which frame a picture is; in an elementary stream they are counted
    from `first`. `video` is the stream of several.
    """
    # Renditions are of several sizes.
    shown_as = f"showinfo,scale={WIDTH}:{HEIGHT}:flags=bicubic"
    filters = ["-vf", shown_as, "-fps_mode", "passthrough"] if stream else ["-fps_mode", "passthrough"]
    command = ["ffmpeg", "-v", "info", "-nostdin", "-copyts", "-flags", "+output_corrupt"]
    command += ["-i", str(path), "-map", video, *filters, "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    done = subprocess.run(command, capture_output=True)
    pixels = np.frombuffer(done.stdout, np.uint8)
    pictures = pixels[: len(pixels) // (WIDTH * HEIGHT) * WIDTH * HEIGHT].reshape(-1, HEIGHT, WIDTH)
    if stream is None:
        return {first + place: picture for place, picture in enumerate(pictures)}
    shown, last = {}, -1
    times = re.findall(rb"showinfo.*? pts: *(\S+) ", done.stderr)
    for time, picture in zip(times, pictures, strict=False):
        last = last + 1 if time == b"NOPTS" else stream.index(int(time))
        shown[last] = picture
    return shown


def psnr(original: np.ndarray, shown: np.ndarray) -> float:
    """Peak signal to noise of the luminance in dB, at most 60."""
    difference = np.subtract(original, shown, dtype=np.int16).ravel().astype(np.float32)
    error = float(difference @ difference) / difference.size
    return 60.0 if error < 0.065 else float(10 * np.log10(255**2 / error))


def ssim(original: np.ndarray, shown: np.ndarray) -> float:
    """Structural similarity of the luminance over windows of 8x8, without overlap."""

    def windows(picture: np.ndarray) -> np.ndarray:
        blocks = picture.astype(np.float32).reshape(HEIGHT // 8, 8, WIDTH // 8, 8)
        return blocks.transpose(0, 2, 1, 3).reshape(-1, 64)

    a, b = windows(original), windows(shown)
    mean_a, mean_b = a.mean(1), b.mean(1)
    var_a, var_b = a.var(1), b.var(1)
    covariance = (a * b).mean(1) - mean_a * mean_b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    values = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float(np.mean(values / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))))


def watch(clip: Clip, pictures: dict[int, np.ndarray], clean: list[float] | None, start: int = FROM) -> dict:
    """What a viewer sees: each frame in its turn; where there is none, the last picture stays.

    The figures beside `clean` are those of the frames from `start` on.
    """
    quality, similarity, frozen = [], [], []
    shown = np.zeros((HEIGHT, WIDTH), np.uint8)
    for number, original in enumerate(clip.pictures):
        picture = pictures.get(number)
        still = picture is None or np.array_equal(picture, shown)
        moved = number > 0 and not np.array_equal(original, clip.pictures[number - 1])
        frozen.append(bool(still and moved))
        shown = shown if picture is None else picture
        quality.append(round(psnr(original, shown), 2))
        if number % SSIM_EACH == 0:
            similarity.append(ssim(original, shown))
    result = {"psnr": quality, "frozen": frozen, "mean_ssim": round(float(np.mean(similarity)), 4)}
    if clean is not None:
        result |= summary(quality, frozen, clean, FROM, TO)
    return result


def summary(quality: list[float], frozen: list[bool], clean: list[float], start: int, end: int) -> dict:
    """Figures of the frames from `start` to `end`."""
    runs = "".join("x" if still else "." for still in frozen[start:end]).split(".")
    lengths = [len(run) for run in runs if run]
    moving = [k for k in range(start, end) if not frozen[k]]
    broken = [k for k in moving if quality[k] < clean[k] - BROKEN_DB]
    return {
        "mean_psnr": round(float(np.mean(quality[start:end])), 2),
        "worst_5_percent_psnr": round(float(np.percentile(quality[start:end], 5)), 2),
        "frozen_percent": round(100 * sum(frozen[start:end]) / (end - start), 1),
        "stalls": sum(length >= STALL for length in lengths),
        "longest_freeze_ms": round(1_000 * max(lengths, default=0) / FPS),
        "broken_percent": round(100 * len(broken) / (end - start), 1),
    }


def quantile(values: list[float], share: float) -> float | None:
    """A quantile in milliseconds."""
    ordered = sorted(values)
    return round(1_000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1) if ordered else None


def spread(values: list[float]) -> str:
    """Median, and the range behind it if there is one."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:g}" if low == high else f"{middle:g} ({low:g}-{high:g})"
