"""Text on pictures, and sheets of many pictures."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from handful.errors import OptionError

INK = (38, 43, 51)
PAPER = (255, 255, 255)

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def write_caption(image: Image.Image, text: str, size: int | None = None) -> None:
    """Write text on a light label in the lower left corner of an image, in place.

    Args:
        image: RGB; changed.
        text: One line, or several with newlines.
        size: Height of the letters, pixels; follows the image if not given.
    """
    font = _font(size or max(11, round(min(image.width, image.height) / 24)))
    draw = ImageDraw.Draw(image, "RGBA")
    left, top, right, bottom = draw.multiline_textbbox((0, 0), text, font=font)
    pad = 5
    low = image.height - pad
    corner = (pad, low - (bottom - top) - 2 * pad)
    draw.rounded_rectangle(
        (*corner, corner[0] + (right - left) + 2 * pad, low), radius=4, fill=(255, 255, 255, 205)
    )
    draw.multiline_text((corner[0] + pad - left, corner[1] + pad - top), text, font=font, fill=INK)


def beside(images: Sequence[Image.Image], gap: int = 2) -> Image.Image:
    """Images in one row, tops aligned, `gap` white pixels between them."""
    size = (sum(image.width for image in images), max(image.height for image in images))
    row = Image.new("RGB", (size[0] + gap * (len(images) - 1), size[1]), PAPER)
    left = 0
    for image in images:
        row.paste(image, (left, 0))
        left += image.width + gap
    return row


def tile(
    images: Sequence[Image.Image],
    columns: int,
    captions: Sequence[str] | None = None,
    title: str = "",
    gap: int = 8,
) -> Image.Image:
    """Images in rows on one white sheet, each with a line of text above it if given.

    Args:
        images: At least one; each cell is as large as the largest.
        columns: Images per row.
        captions: One per image.
        title: Over the whole sheet; in several lines where it is longer than the sheet is wide.
        gap: White between images and around them, pixels.

    Raises:
        OptionError: No images, no columns, or another number of captions than of images.
    """
    if not images or columns < 1:
        raise OptionError(f"tile got {len(images)} images in {columns} columns: need one of each.")
    if captions is not None and len(captions) != len(images):
        raise OptionError(f"tile got {len(captions)} captions for {len(images)} images.")
    columns = min(columns, len(images))
    width, height = (max(getattr(image, side) for image in images) for side in ("width", "height"))
    letter, heading = max(12, round(height / 22)), max(16, round(height / 15))
    line = round(1.6 * letter) if captions else 0
    rows = -(-len(images) // columns)
    across = gap + columns * (width + gap)
    headline = _wrapped(title, _font(heading), across - 2 * gap)
    top = gap + (round((0.6 + 1.3 * len(headline)) * heading) if title else 0)
    size = (across, top + rows * (height + line + gap))
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, text in enumerate(headline):
        low = gap + round(1.3 * heading * number)
        draw.text((gap, low), text, font=_font(heading), fill=INK)
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        x, y = gap + column * (width + gap), top + row * (height + line + gap)
        if captions:
            draw.text((x + 2, y + 2), captions[number], font=_font(letter), fill=INK)
        sheet.paste(image, (x, y + line))
    return sheet


def _wrapped(text: str, font: Font, width: int) -> list[str]:
    """The words of a text in lines of at most `width` pixels, or of one word."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _font(size: int) -> Font:
    """Pillow's own font, which needs no file from the system."""
    return ImageFont.load_default(size)
