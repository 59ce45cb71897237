"""The report: one self-contained HTML file, and its charts.

`charts` makes matplotlib figures, `svg` turns them into inline SVG, `values` prepares tables, `flat` the run block,
`words` says rules and protocols in plain words, `belief` says how much of a finding is chance, `distance` how many
labels it takes, `page` fills the templates.
"""
