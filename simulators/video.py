"""Clips in and out: streamed H.264 that is read back and counted, and untrusted files read within stated limits.

It refuses to resize, drop or invent a frame, and to know what a clip shows.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar

import imageio_ffmpeg
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from simulators.device import State
from simulators.engines.loop import READ_RATE
from simulators.render.blur import STILL, Shutter, exposed
from simulators.render.canvas import Canvas, Image, nominal_state, refuse_blank
from simulators.world import World

T = TypeVar("T")
MINIMUM = 49  # frames of a clip
CRF = 16  # of x264: no loss that the eye sees
_BT709 = ["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]


class ClipError(ValueError):
    """A clip cannot be written, or a file is not a clip that may be read. The message says why."""


@dataclass(frozen=True)
class Limits:
    """What an untrusted clip may be: bytes of the file, pixels a frame and frames at most, and from and to which rate [1/s]."""

    size: int = 512 * 2**20
    pixels: int = 4096 * 2304
    frames: int = 20_000
    fps: tuple[float, float] = (0.1, 1000.0)


@dataclass(frozen=True)
class ClipInfo:
    """A clip as decoded: `frames` are counted, never taken from a header; `fps` [1/s] is the stream's."""

    width: int
    height: int
    fps: float
    frames: int
    codec: str
    pixel_format: str


def write_clip(path: str | Path, frames: Iterable[Image], fps: float, crf: int = CRF, comment: str = "") -> int:
    """Stream `frames` (H, W, 3) to an H.264 file and return how many it holds, as counted by decoding it again.

    yuv420p, constant rate, index at the front; `crf` is x264's: 0 loses nothing, 51 most; `comment` goes into the
    file's own metadata. The file appears whole or not at all. Raises `ClipError` for no frames, odd or changing sizes, a frame
    of one colour or black, a failing encoder, or a count that differs when read back.
    """
    target = Path(path)
    if target.suffix.lower() != ".mp4":
        raise ClipError(f"a clip's file name must end in .mp4, got {target.name!r}")
    if not 0.0 < fps <= 1000.0:
        raise ClipError(f"`fps` must be in (0, 1000], got {fps}")
    if not 0 <= crf <= 51:
        raise ClipError(f"`crf` must be in 0 to 51, got {crf}")
    pending = iter(frames)
    first = next(pending, None)
    if first is None:
        raise ClipError(f"a clip needs at least one frame: {target}")
    _check_frame(first, first.shape, 0)
    height, width = first.shape[:2]
    if width % 2 or height % 2:
        raise ClipError(f"a clip's width and height must be even (yuv420p), got {width}x{height}; change the camera's size")
    handle, name = tempfile.mkstemp(suffix=".mp4", prefix=f".{target.stem[:40]}-", dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        sent = _encode(part, chain([first], pending), first.shape, fps, crf, comment)
        held = _decoded(part)
        if held != sent:
            raise ClipError(f"{target}: {sent} frames were sent to the encoder and {held} came back")
        part.chmod(0o666 & ~_umask())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return sent


def _decoded(path: Path) -> int:
    """Return how many frames a clip of ours holds, all of them decoded, none turned into colours. Raises `ClipError`."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", "-xerror", *_UNTRUSTED, "-i", f"file:{path}"]
    command += ["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framecrc", "-"]
    with tempfile.TemporaryFile() as log:
        told = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        if told.returncode or os.fstat(log.fileno()).st_size:
            raise ClipError(f"{path.name} is damaged: {_said(log)}")
    return sum(1 for line in told.stdout.splitlines() if not line.startswith(b"#"))  # a line a frame, after a header


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _check_frame(frame: Image, shape: tuple[int, ...], number: int) -> None:
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise ClipError(f"frame {number} must be uint8 (H, W, 3), got {frame.dtype} {frame.shape}")
    if frame.shape != shape:
        raise ClipError(f"frame {number} is {frame.shape[1]}x{frame.shape[0]}, the first was {shape[1]}x{shape[0]}")
    try:
        refuse_blank(frame, f"frame {number}")
    except ValueError as error:
        raise ClipError(str(error)) from error


def _encode(path: Path, frames: Iterable[Image], shape: tuple[int, ...], fps: float, crf: int, comment: str) -> int:
    height, width = shape[:2]
    rate = str(Fraction(fps).limit_denominator(100_000))
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-nostdin", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += [
        "-s",
        f"{width}x{height}",
        "-r",
        rate,
        "-i",
        "-",
        "-an",
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-crf",
        str(crf),
    ]
    command += ["-vf", "scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int", "-pix_fmt", "yuv420p"]
    # one thread: the bytes must not depend on the machine's cores, and clips are encoded side by side
    command += [*_BT709, "-r", rate, "-threads", "1", "-movflags", "+faststart", "-fflags", "+bitexact", "-f", "mp4"]
    command += ["-metadata", f"comment={comment}"] if comment else []
    sent = 0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*command, f"file:{path}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)
        pipe = process.stdin
        if pipe is None:
            raise ClipError("the encoder has no input")
        try:
            for frame in frames:
                _check_frame(frame, shape, sent)
                pipe.write(np.ascontiguousarray(frame).data)
                sent += 1
            pipe.close()
        except BrokenPipeError as error:
            process.wait()
            raise ClipError(f"the encoder stopped after {sent} frames: {_said(log)}") from error
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
        if status:
            raise ClipError(f"the encoder failed: {_said(log)}")
    return sent


def _said(log: IO[bytes]) -> str:
    """Return the first line that ffmpeg wrote, without addresses."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return re.sub(r" @ 0x[0-9a-f]+|file:\S*/", "", lines[0]) if lines else "no message"


_UNTRUSTED = ["-protocol_whitelist", "file", "-format_whitelist", "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"]


def _header(path: Path, limits: Limits) -> tuple[int, int, float, str, str]:
    """Return width, height, fps, codec and pixel format, after the checks that need no decoding."""
    if not path.is_file():
        raise ClipError(f"there is no clip {path}")
    size = path.stat().st_size
    if not 0 < size <= limits.size:
        raise ClipError(f"{path} holds {size} bytes; a clip may hold 1 to {limits.size}")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-nostdin", *_UNTRUSTED, "-i", f"file:{path.resolve()}"]
    command += ["-map", "0:v:0", "-c", "copy", "-frames:v", "1", "-f", "framecrc", "-"]
    try:
        found = subprocess.run(command, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise ClipError(f"{path} could not be opened within 60 s") from error
    told = found.stderr.decode(errors="replace")
    # Among what the decoder tells of the stream is what the file says of itself, its title and language, line ends and all; in
    # the header of a packet's sum there is nothing but the stream's own size.
    size_of = re.search(rb"^#dimensions 0: (\d{1,6})x(\d{1,6})$", found.stdout, re.MULTILINE)
    if size_of is None:
        last = told.strip().splitlines()[-1] if told.strip() else "no message"
        raise ClipError(f"{path} is not a readable video: {re.sub(r'.*file:[^:]*: ', '', last)}")
    width, height = int(size_of.group(1)), int(size_of.group(2))
    lines = re.findall(rf"^  Stream #.*Video: ((\w+)\b.*[ ,]{width}x{height}(?:[ ,].*)?)$", told, re.MULTILINE)
    line, codec = lines[0] if lines else ("", "")
    if not 0 < width * height <= limits.pixels:
        raise ClipError(f"{path} has frames of {width}x{height}; a clip may have {limits.pixels} pixels a frame")
    rate = re.search(r" (\d+(?:\.\d+)?k?) fps", line)
    fps = float(rate.group(1).replace("k", "e3")) if rate else math.nan
    if rate and not limits.fps[0] <= fps <= limits.fps[1]:
        raise ClipError(f"{path} plays {fps:g} frames a second; a clip may play {limits.fps[0]:g} to {limits.fps[1]:g}")
    pixel = re.search(r"^[^,]*(?:\([^)]*\))*, (\w+)", line)
    return width, height, fps, codec, pixel.group(1) if pixel else ""


def read_clip(path: str | Path, limit: int | None = None, limits: Limits | None = None) -> Iterator[Image]:
    """Yield the frames (H, W, 3) of a clip as stored, at most `limit` of them.

    Raises `ClipError` where the file is no video, is damaged, or exceeds `limits`. Frames before damage may have been yielded.
    """
    file, most = Path(path), limits if limits is not None else Limits()
    width, height, *_ = _header(file, most)
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", "-xerror", "-noautorotate", *_UNTRUSTED]
    padded = 2 * most.pixels + 2**16  # the decoder counts whole macroblocks; the true size was checked above
    command += ["-max_pixels", str(padded), "-i", f"file:{file.resolve()}", "-map", "0:v:0", "-fps_mode", "passthrough"]
    command += ["-vf", f"scale={width}:{height}:flags=accurate_rnd+full_chroma_int+full_chroma_inp"]
    command += ["-pix_fmt", "rgb24", "-f", "rawvideo", "-"]
    size, count = width * height * 3, 0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        pipe = process.stdout
        if pipe is None:
            raise ClipError("the decoder has no output")
        try:
            while limit is None or count < limit:
                raw = pipe.read(size)
                if not raw:
                    break
                if len(raw) < size:
                    raise ClipError(f"{file} ends within frame {count}")
                if count >= most.frames:
                    raise ClipError(f"{file} has more than {most.frames} frames")
                count += 1
                yield np.frombuffer(raw, np.uint8).reshape(height, width, 3)
            else:
                return
            if process.wait() or os.fstat(log.fileno()).st_size:
                raise ClipError(f"{file} is damaged: {_said(log)}")
            if count == 0:
                raise ClipError(f"{file} holds no frame")
        finally:
            process.kill()
            pipe.close()
            process.wait()


def clip_info(path: str | Path, limits: Limits | None = None) -> ClipInfo:
    """Decode a clip once and say what it is. Raises `ClipError` as `read_clip` does."""
    most = limits if limits is not None else Limits()
    width, height, fps, codec, pixel_format = _header(Path(path), most)
    frames = sum(1 for _ in read_clip(path, limits=most))
    return ClipInfo(width, height, fps, frames, codec, pixel_format)


def source_image(canvas: Canvas, world: World) -> Image:
    """Return frame 0 of every clip of a world: nominal poses at the start of its prelude, (H, W, 3)."""
    image = canvas.frame(nominal_state(world), 0)
    refuse_blank(image, "the source image")
    return image


def clip_length(frames: int, minimum: int = MINIMUM, hold: float = 1 / 8) -> int:
    """Return how many frames a clip of a trajectory of `frames` has, so that its last state fills at least a `hold` of it."""
    if frames < 1 or not 0.0 <= hold < 1.0:
        raise ValueError(f"a clip needs a frame and a `hold` in [0, 1), got {frames} and {hold}")
    return max(minimum, frames, math.ceil((frames - 1) / (1.0 - hold) - 1e-9))


def rows_of_clip(count: int, shutter: Shutter = STILL, minimum: int = MINIMUM, hold: float = 1 / 8) -> list[int]:
    """Return for each frame of a clip the row it shows of a trajectory of `count`, the last one held (see `clip_length`)."""
    rows = [*range(0, count - 1, shutter.stride), count - 1]
    return rows + [count - 1] * (clip_length(len(rows), minimum, hold) - len(rows))


def frames_of_clip(
    canvas: Canvas,
    trajectory: State,
    fps: float,
    minimum: int = MINIMUM,
    hold: float = 1 / 8,
    preludes: dict[float, Image] | None = None,
    shutter: Shutter = STILL,
) -> Iterator[Image]:
    """Yield the frames of a trajectory recorded at `shutter.rate(fps)`, then hold its final state (see `clip_length`).

    `preludes` keeps the frames before the release by their time, for the next clip of the same canvas and shutter: every
    launch shares them. What moves is blurred by an open shutter; the final state is sharp.
    Raises `ValueError` where the trajectory was recorded at another rate: a clip is real time.
    """
    rate = shutter.rate(fps)
    late = trajectory.time - trajectory.time[0] - np.arange(len(trajectory)) / rate
    slack = 0.51 / READ_RATE  # a frame is the nearest integration step; the last one, the final state, may come early
    if np.any(np.abs(late[:-1]) > slack) or late[-1] > slack or late[-1] < -1.0 / rate:
        raise ValueError(
            f"the trajectory was not recorded at {rate:g} frames a second: a frame is {np.max(np.abs(late)):.3g} s off"
        )
    image = canvas.background
    kept = {} if preludes is None else preludes
    last, shown = len(trajectory) - 1, -1
    for row in rows_of_clip(len(trajectory), shutter, minimum, hold):
        time = float(trajectory.time[row])
        if row == shown:
            yield image
            continue
        if row == last:
            image = canvas.frame(trajectory, row)
        elif time >= 0.0:
            image = exposed(canvas, trajectory, row, shutter.samples)
        else:
            if time not in kept:
                kept[time] = exposed(canvas, trajectory, row, shutter.samples)
            image = kept[time]
        shown = row
        yield image


def evenly_spaced(frames: Sequence[T], count: int = 8) -> list[T]:
    """Return `count` frames evenly spaced from the first to the last, both included; all of them where there are fewer."""
    if count < 1:
        raise ValueError(f"`count` must be at least 1, got {count}")
    if count >= len(frames):
        return list(frames)
    if count == 1:
        return [frames[-1]]
    return [frames[(k * (len(frames) - 1) + (count - 1) // 2) // (count - 1)] for k in range(count)]


def contact_sheet(
    images: Sequence[Image], columns: int, labels: Sequence[str] | None = None, width: int | None = None, gap: int = 6
) -> Image:
    """Lay pictures (h, w, 3) of one size out in rows of `columns`, each `width` pixels wide, with labels below.

    A label is as wide as its picture at most, and as those after it in the row that have none: it is written smaller to fit.
    Raises `ValueError` where sizes differ or labels do not match.
    """
    if not images or columns < 1:
        raise ValueError(f"a contact sheet needs pictures and at least 1 column, got {len(images)} and {columns}")
    if len({image.shape for image in images}) > 1:
        raise ValueError(f"pictures of a contact sheet must have one size, got {sorted({i.shape for i in images})}")
    if labels is not None and len(labels) != len(images):
        raise ValueError(f"a contact sheet of {len(images)} pictures needs as many labels, got {len(labels)}")
    high, wide = images[0].shape[:2]
    cell = (width or wide, max(1, round(high * (width or wide) / wide)))
    letter = max(11, cell[0] // 18)
    font = ImageFont.load_default(size=letter)
    caption = 0 if labels is None else int(letter * 1.6)
    columns, rows = min(columns, len(images)), -(-len(images) // columns)
    sheet = Pillow.new("RGB", (columns * (cell[0] + gap) + gap, rows * (cell[1] + caption + gap) + gap), (250, 250, 250))
    pen = ImageDraw.Draw(sheet)
    for k, image in enumerate(images):
        x, y = gap + (k % columns) * (cell[0] + gap), gap + (k // columns) * (cell[1] + caption + gap)
        picture = Pillow.fromarray(np.ascontiguousarray(image))
        sheet.paste(picture if cell == (wide, high) else picture.resize(cell, Pillow.Resampling.LANCZOS), (x, y))
        if labels is not None:
            later = labels[k + 1 : k + columns - k % columns]
            empty = next((n for n, label in enumerate(later) if label), len(later))
            room = (cell[0] + gap) * (1 + empty) - gap - 4
            wanted = font.getlength(labels[k])
            fits = font if wanted <= room else ImageFont.load_default(size=letter * room / wanted)
            pen.text((x + 2, y + cell[1] + caption // 8), labels[k], fill=(30, 30, 30), font=fits)
    return np.asarray(sheet)
