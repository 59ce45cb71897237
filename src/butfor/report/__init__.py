"""The report: one self-contained HTML file, and its charts.

`charts` makes matplotlib figures, `svg` turns them into inline SVG, `values` prepares tables, `words`
says rules and protocols in plain words, `belief` says how much of a finding is chance, `page` fills the templates.
"""
