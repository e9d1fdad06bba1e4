"""How well models trained on the paper authors' ten mug demonstrations pick and place."""
