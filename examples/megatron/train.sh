#!/bin/sh
# A Megatron-LM run for plumb: sh train.sh.  Not run here; README.md says what was read and what it needs.
set -eu
exec torchrun --nproc_per_node "${GPUS:-8}" --max_restarts 0 pretrain_gpt.py \
    --seed "${PLUMB_SEED:-1234}" \
    --deterministic-mode --rerun-mode disabled \
    --bf16 --transformer-impl transformer_engine \
    --fp8-format hybrid --fp8-recipe tensorwise \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 4 --global-batch-size 256 \
    --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 200 --clip-grad 1.0 \
    --train-iters 10000 --eval-iters 0 --log-interval 1 \
    --tokenizer-type NullTokenizer --vocab-size 32000 --mock-data
