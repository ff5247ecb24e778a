"""Stand-in for openai: a script imports a module that asks it for texts, and asks for none."""

from types import SimpleNamespace

openai_object = SimpleNamespace(OpenAIObject=object)
