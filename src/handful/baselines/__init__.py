"""The paper's other systems, each a folder of its own behind the interface of `learning.Method`."""
