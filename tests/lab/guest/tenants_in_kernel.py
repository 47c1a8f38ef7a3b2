"""Tenants share the lab accelerator's engine under scheduling policies: TENANTS SETTINGS POLICY... Prints JSON."""

import json
import sys

import accel_magic
from accel_magic.lab.accelerator import counts


def main():
    tenants, settings, *policies = sys.argv[1:]
    before = counts.hooks()
    result = accel_magic.gpuschedule(
        policies, tenants, runs=1, settings=json.loads(settings), engine="kernel", duration_s=1.0
    )
    hooks = {name: count - before[name] for name, count in counts.hooks().items()}
    print(
        json.dumps(
            {
                "tasks": json.loads(result.tasks.to_json(orient="values")),
                "counts": json.loads(result.counts.reset_index().to_json(orient="records")),
                "jobs": [
                    json.loads(result.latencies.query("policy == @name").to_json(orient="records"))
                    for name in ("default", *(trial.name for trial in result.trials.trials[1:]))
                ],
                "maps": {
                    name: {column: int(table[column].iloc[0]) for column in table if column != "cpu"}
                    for name, tables in result.maps.items()
                    for table in [tables.get(".bss")]
                    if table is not None
                },
                "busy_us": [float(trial.schedules[0].busy_us.sum()) for trial in result.trials.trials],
                "preempted": [trial.schedules[0].preempted.tolist() for trial in result.trials.trials],
                "clients": [
                    [one[name] for name in ("timeslice_us", "interleave", "rejected", "preempted", "process")]
                    for one in counts.clients()
                ],
                "rings": [row for row in counts.jobs() if row["client"] == 0],
                "hooks": hooks,
                "shown": str(result).splitlines()[1],
            }
        )
    )


main()
