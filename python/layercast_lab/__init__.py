"""The lab of Layercast: campaigns of simulations, and experiments that reproduce the figures of papers."""

from layercast_lab.campaign import Campaign, Outcome, Run
from layercast_lab.metrics import Metric

__all__ = ["Campaign", "Metric", "Outcome", "Run"]
