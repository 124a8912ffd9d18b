"""Operations that keras.ops lacks, once for each backend."""
