"""Audits of one's own training loop with Opacus (extra `opacus`): canaries through its optimizer or its loader.

    def build(dataset, seed):  # ends in PrivacyEngine.make_private
        return model, optimizer, loader

    def fit(model, optimizer, loader):  # the loop, as it is
        ...

    score = GradientCanary(build=build, fit=fit, dataset=dataset, gradient=least_updated(build, fit, dataset))
    da.audit(score, claim=claim(build, fit, dataset, delta=1e-5, relation="add-remove"))

A call of a score is one training run, and all its randomness comes from its seed: the global generators of torch, numpy
and Python are seeded before `build` and put back afterwards, and torch runs on one thread, so that the number is the
same wherever it is computed. Nothing of Opacus is replaced: methods of the one optimizer *instance* that `build`
returned are wrapped. `BUGS` can be switched on in any such loop, to see whether an audit of it would notice.
"""

from __future__ import annotations

from dpaudit.integrations.opacus.bugs import BUGS
from dpaudit.integrations.opacus.dry_runs import claim, least_updated
from dpaudit.integrations.opacus.scores import GradientCanary, InputCanary, label_logit

__all__ = ["BUGS", "GradientCanary", "InputCanary", "claim", "label_logit", "least_updated"]
