"""Scripts in HTML, SVG, JavaScript and Markdown outputs, and in the cells' text.

score: 15
says: ✓ LayerNorm
also: quick
"""

# %% scratch
from IPython.display import HTML, SVG, Javascript, Markdown, Latex, IFrame, display
display(HTML("<script>document.title='x'</script><img src=x onerror=alert(1)><iframe src='javascript:alert(1)'></iframe><a href='java\nscript:alert(1)'>x</a>"))
display(HTML("<svg><script>alert(1)</script><a xlink:href='javascript:alert(1)'><text>x</text></a></svg><math href='javascript:alert(1)'>x</math><form action='//evil'><button>x</button></form>"))
display(HTML("<style>@import url(//evil)</style><div style='background:url(//evil);position:fixed'>x</div><base href='//evil'><meta http-equiv=refresh content='0;url=//evil'><noscript><p title='</noscript><img src=x onerror=alert(1)>'>"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"))
display(Javascript("alert(1)")); display(IFrame("javascript:alert(1)", 10, 10))
display(Markdown("[x](javascript:alert(1)) <script>alert(1)</script> ![x](javascript:alert(1))"))
display(Latex(r"$\href{javascript:alert(1)}{x}$ <script>alert(1)</script>"))
display({"text/html": ["<script>", "alert(1)", "</script>"], "application/javascript": "alert(1)", "text/plain": "x"}, raw=True)
display({"image/png": "\"><script>alert(1)</script>", "text/latex": "<script>alert(1)</script>", "application/pdf": "x"}, raw=True)
