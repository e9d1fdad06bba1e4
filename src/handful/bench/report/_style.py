"""How the report looks."""

STYLE = """
:root { --ink: #1d2430; --soft: #5b6677; --line: #e2e7ee; --paper: #ffffff; --tint: #f5f7fa;
  --good: #0f7a4b; --bad: #b3421f; --accent: #2b6be4; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--tint); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 32px 80px; background: var(--paper);
  min-height: 100vh; box-shadow: 0 0 40px rgba(30, 40, 60, .06); }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -.01em; }
h2 { font-size: 22px; margin: 48px 0 10px; padding-top: 18px; border-top: 1px solid var(--line); }
h3 { font-size: 17px; margin: 28px 0 6px; }
p { margin: 8px 0; max-width: 75ch; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px;
  margin: 22px 0; }
.card { background: var(--tint); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; display: flex; flex-direction: column; }
.card b { font-size: 28px; line-height: 1.15; letter-spacing: -.02em; }
.card span { font-weight: 600; margin-top: 2px; }
small, .card small { color: var(--soft); font-size: 12.5px; }
td small { display: block; line-height: 1.3; }
.scroll { overflow-x: auto; margin: 14px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-size: 13px; color: var(--soft); font-weight: 600; }
th, td { padding: 8px 12px 8px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { font-size: 15px; }
td.good { color: var(--good); font-weight: 600; }
td.bad { color: var(--bad); font-weight: 600; }
td.good small, td.bad small { font-weight: 400; }
pre { background: #1f2733; color: #e8edf4; padding: 14px 16px; border-radius: 8px;
  overflow-x: auto; font-size: 13.5px; line-height: 1.5; }
figure { margin: 14px 0; }
figure img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px;
  display: block; }
figcaption { color: var(--soft); font-size: 13.5px; margin-top: 6px; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 18px; }
.gallery figure { margin: 0; min-width: 0; }
.drawing svg { width: 100%; height: auto; display: block; }
@media (max-width: 640px) { main { padding: 24px 16px 60px; }
  .gallery { grid-template-columns: 1fr; } }
@media print { body { background: none; } main { box-shadow: none; max-width: none; } }
"""
