"""The plan of a stage: what code does with it and a cost model counts, decided once and read by both.

    Plan            which stages are prepared ahead, and a StagePlan for each
    StagePlan       LoopPlan: which loops run in full, where a reduction accumulates, where its tile begins
                    StoragePlan of each tensor: scope, shape, how often it exists
                    where straight code begins

Extents are those of one config or of a population. What depends on them is a condition with an entry for each candidate;
`variants.py` divides a population into groups that have one plan each. Imports nothing above schedules/.
"""
