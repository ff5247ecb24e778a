"""`chaos init`: a first scenario and a workflow for a script."""
