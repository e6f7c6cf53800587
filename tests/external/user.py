"""What a user writes for the games of code, at its smallest: one function each."""


def score(world, seed):
    return float(world)


def scores(included, seed):
    return included


def answers(world, seed):
    return [0]
