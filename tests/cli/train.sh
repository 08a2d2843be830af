#!/bin/sh
# What a person sees of `plumb train`: one summary on standard output, errors as one sentence.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

i=0
while [ "$i" -lt 400 ]; do
    echo "line $i of a text that is long enough to learn a little from"
    i=$((i + 1))
done >text
cat >run.yaml <<'END'
data: text
model: {layers: 1, width: 32, heads: 2, ff: 40, context: 16}
batch: {sequences: 4}
optimizer: {steps: 5, warmup: 2}
END

try train 0 "$PLUMB" train run.yaml --out first
shows train 'steps 1 to 5: loss '
shows train '; 320 tokens in '
shows train 'validation loss '
shows train 'run: first'
[ ! -s err ]
result $? "nothing on standard error when that is no terminal"
[ "$(wc -l <first/metrics.jsonl)" -eq 5 ]
result $? "five lines of metrics"
try 'the same directory again' 3 "$PLUMB" train run.yaml --out first
says 'the same directory again' 'first already holds a run'
[ ! -s out ]
result $? "no summary of a run that did not begin"
try 'a directory that cannot be' 3 "$PLUMB" train run.yaml --out run.yaml/third
says 'a directory that cannot be' 'out: cannot make directory run.yaml'
try 'the plan of a run' 0 "$PLUMB" diagnose --plan run.yaml
shows 'the plan of a run' 'Plan only: at most about '
try 'no plan for a trainer that dies' 2 "$PLUMB" diagnose --plan -- sh -c 'exit 5'
shows 'no plan for a trainer that dies' 'Nothing to plan: the trainer ended with exit status 5'
cat >rules.yaml <<'END'
recipe: te-delayed
rules:
  - {sites: "layer.0/*", use: bf16}
  - {sites: "layer.9/*", use: bf16}
END
try 'a rule for no site' 3 "$PLUMB" train rules.yaml --out third
says 'a rule for no site' "rules: rule 2: 'layer.9/*' matches no site"
sed 's,layer.9/\*,*/mlp.pu/fprop/*,' rules.yaml >site.yaml
try 'a rule for nearly a site' 3 "$PLUMB" train site.yaml --out third
says 'a rule for nearly a site' "did you mean 'layer.0/mlp.up/fprop/x'?"
try 'nearly a recipe' 3 "$PLUMB" train --set recipe=deepsek-v3 --out third
says 'nearly a recipe' "recipe is 'deepsek-v3'; did you mean 'deepseek-v3'?"
try 'the beginning of a recipe' 3 "$PLUMB" train --set recipe=deepseek --out third
says 'the beginning of a recipe' "did you mean 'deepseek-v3'?"
try 'nothing like a recipe' 3 "$PLUMB" train --set recipe=zzz --out third
says 'nothing like a recipe' "recipe is 'zzz'; allowed: bf16, te-delayed"
sed 's/layer.9/layer.0/; 4s/bf16/e4m3:mx33/' rules.yaml >use.yaml
try 'a rule with an unknown use' 3 "$PLUMB" train use.yaml --out third
says 'a rule with an unknown use' 'rule 2, use "e4m3:mx33"'
try 'an unknown key' 3 "$PLUMB" train run.yaml --set model.widht=8 --out second
says 'an unknown key' "did you mean 'model.width'"
finish
