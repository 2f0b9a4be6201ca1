"""Placement and routing on reconfigurable dataflow hardware: fabric, workloads, simulator, placers."""
