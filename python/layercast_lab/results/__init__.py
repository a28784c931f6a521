"""Measurements as data: the files `results/*.json`, how they are recorded, and the pages made of them.

`python -m layercast_lab.results record` runs experiments and writes their rows, `tables` writes the pages.
"""
