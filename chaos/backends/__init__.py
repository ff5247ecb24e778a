"""Where a plan is executed. A backend writes journals and changes nothing else of ours."""
