"""What the rows say, in sentences a person would say aloud: used at the end of a sweep and on the report's cards."""

from bancada.verdicts.verdict import Fact, Verdict, as_text, verdicts

__all__ = ["Fact", "Verdict", "as_text", "verdicts"]
