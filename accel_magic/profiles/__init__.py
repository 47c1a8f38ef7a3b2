"""Profiles: samples with stacks, from `%%flame`, from iaprof and from other tools' files."""
