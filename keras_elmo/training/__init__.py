"""Training a biLM: vocabulary, corpus, model, checkpoints and perplexity."""
