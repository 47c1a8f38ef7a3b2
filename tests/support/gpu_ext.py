"""gpu_ext's own policies in their present interface, from the checkout that ACCEL_MAGIC_GPU_EXT names."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("ACCEL_MAGIC_GPU_EXT", "")) / "extension"
_EXAMPLE = FOLDER / "eviction_lfu.bpf.c"

needed = pytest.mark.skipif(
    not os.environ.get("ACCEL_MAGIC_GPU_EXT")
    or not _EXAMPLE.exists()
    or "bpf_gpu_request_reorder" not in _EXAMPLE.read_text(),
    reason="ACCEL_MAGIC_GPU_EXT does not name a checkout of gpu_ext with its present interface",
)
LOADED = {
    *("eviction_2q_approx", "eviction_cycle_moe", "eviction_fifo", "eviction_fifo_chance", "eviction_freq_pid_decay"),
    *("eviction_lfu", "eviction_lfu_xcoord", "eviction_mru", "eviction_pid_quota"),
    *("prefetch_adaptive_sequential", "prefetch_adaptive_tree_iter", "prefetch_always_max"),
    *("prefetch_always_max_cycle_moe", "prefetch_always_max_qos", "prefetch_always_max_xcoord"),
    *("prefetch_delta_markov", "prefetch_eviction_pid", "prefetch_max_mru_expert", "prefetch_max_passive_mru"),
    *("prefetch_none", "prefetch_none_revision", "prefetch_pid_tree", "prefetch_serving_adaptive"),
    *("prefetch_stride", "prefetch_stride_lfu", "prefetch_template_belady"),
}
"""Policies of eviction and prefetching that load."""
_MIGRATE = "bpf_gpu_migrate_range, which gpu_ext's present driver does not have"
REFUSED = {
    "eviction_debt": 'uvm_kv_malloc_enter is in SEC("uprobe")',
    **{
        f"prefetch_{name}": _MIGRATE
        for name in (
            *("cooperative", "cross_block_v2", "faiss_phase", "faiss_uprobe", "gnn_proactive", "llama_phase"),
            *("moe_expert", "proactive_layer", "reuse_dist", "stride_multiblock", "throttled_xb", "vllm_phase"),
            "vllm_phase_transparent",
        )
    },
    "prefetch_trace": "",
}
"""Those that do not, and what the reason has to say."""
TOO_COMPLEX = {"prefetch_template_belady"}
"""Those that the verifier of Linux 6.12 gives up on: it has a loop of 40 steps, without bpf_loop."""
CONFIGURED = {
    "prefetch_adaptive_tree_iter": {"threshold_map.0": 51},
    "prefetch_stride": {"policy_config.0": 2, "policy_config.1": 2, "policy_config.2": 128},
}


def files():
    """Policies of eviction and prefetching by name."""
    found = (*FOLDER.glob("eviction_*.bpf.c"), *FOLDER.glob("prefetch_*.bpf.c"))
    return {path.name.removesuffix(".bpf.c"): path for path in sorted(found)}
