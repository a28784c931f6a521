"""Experiments of Layercast: each reproduces one figure or table and says how close it came."""
