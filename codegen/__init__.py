"""Generator of tilewright: specs in, validated rules, proofs and generated sources out.

Importing this package needs neither torch nor a GPU, and pulls in no heavy module.
"""

from __future__ import annotations
