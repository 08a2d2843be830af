#!/bin/sh
# What can stand where: the program's answers, and what bash, fish and zsh make of them when
# their completion really runs.  Every verb and option of the help must be offered.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

PATH=$(dirname "${PLUMB:?}"):$PATH
HOME=$PWD
export HOME
mkdir -p here/folder
: >here/run.yaml
: >here/other.txt

answers() { # NAME WANTED WORD...: the words offered, apart by spaces
    name=$1
    wanted=$2
    shift 2
    got=$("$PLUMB" completion -- "$@" | cut -f 1 | tr '\n' ' ')
    [ "${got% }" = "$wanted" ]
    result $? "$name: '${got% }'"
}

answers "verbs" "demo diagnose" d
answers "no verb" "" zzz
answers "verbs that are hidden" "" comp
answers "options of plumb" "--help" --h
answers "options" "--seed --seeds" diagnose --seed
answers "a run file" ":file" train ""
answers "a directory" ":dir" report ""
answers "the value of an option" ":dir" diagnose run.yaml --study ""
answers "the value of a letter" ":file" matmul -o ""
answers "the value behind =" "--layout=nt --layout=nn" matmul --layout=n
answers "one of two kinds of value" "hopper-wgmma hopper-mma hopper-16 :file" matmul --compare hopper
answers "a format" "e4m3 e4m3fnuz" format e4m3
answers "a spec" "e5m2 e5m2fnuz" matmul --spec e5
answers "an attribute of a spec" "--spec=e5m2:margin=1:current" matmul --spec=e5m2:margin=1:cur
answers "no second format" "" format e4m3 e4
answers "a verb of help" "matmul man" help ma
answers "the second argument of two" ":file" matmul a.npy ""
answers "nothing behind the last" "" matmul a.npy b.npy ""
answers "keys" "model.width=" train --set model.wi
answers "values of a key" "recipe=bf16" train --set recipe=b
answers "files of a key" ":file" train --set data=x
answers "a key behind a flag's value" "seed=" train -o dir --set seed
answers "a word behind a flag" "decoy" demo --quiet dec
answers "a command" ":file" diagnose --plan -- py
answers "a value that looks like a verb" "" train --set demo

# Everything in the help is offered, and nothing else.
for verb in $("$PLUMB" completion -- "" | cut -f 1); do
    "$PLUMB" "$verb" --help | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' >listed
    echo --help >>listed
    "$PLUMB" completion -- "$verb" - | cut -f 1 >offered
    cmp -s listed offered
    result $? "the options of $verb are offered"
done

# --- shells ------------------------------------------------------------------------------

# in_bash WANTED WORD...: COMPREPLY as bash itself parts the words.
in_bash() {
    wanted=$1
    shift
    got=$(cd here && bash --norc -c '
        source <(plumb completion bash)
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _plumb
        printf "%s " "${COMPREPLY[@]}"' _ "$@")
    [ "${got% }" = "$wanted" ]
    result $? "bash: $*: '${got% }'"
}

in_bash "demo diagnose" plumb d
in_bash "e4m3 e4m3fnuz" plumb format e4m3
in_bash "nt nn" plumb matmul --layout = n
in_bash "mx32 mx-floor mx-ceil mx-even mx-rceil" plumb matmul --spec e4m3 : mx
in_bash "te-delayed te-current te-mxfp8" plumb train --set recipe = te
in_bash "model.width=" plumb train --set model.wi
in_bash "run.yaml" plumb train ru
in_bash "folder" plumb report fo
in_bash "run.yaml" plumb train --set data = ru
in_bash "" plumb zzz ""
bash --norc -n "$PLUMB_SOURCE_DIR/src/cli/shell/plumb.bash"
result $? "bash reads the script"

in_fish() {
    wanted=$1
    # shellcheck disable=SC2016 # fish expands it
    got=$(cd here && fish --no-config -c '
        plumb completion fish | source
        complete -C $argv[1]' "$2" | cut -f 1 | sort | tr '\n' ' ')
    [ "${got% }" = "$wanted" ]
    result $? "fish: $2: '${got% }'"
}

if command -v fish >/dev/null; then
    in_fish "demo diagnose" "plumb d"
    in_fish "--layout=nn --layout=nt" "plumb matmul --layout=n"
    in_fish "recipe=te-current recipe=te-delayed recipe=te-mxfp8" "plumb train --set recipe=te"
    in_fish "run.yaml" "plumb train ru"
    in_fish "--out=run.yaml" "plumb matmul --out=ru"
    in_fish "folder/" "plumb report fo"
else
    echo "# fish is not installed"
fi

# in_zsh WANTED LINE: the line after Tab, in a zsh of its own.
in_zsh() {
    wanted=$1
    got=$(cd here && zsh -f -c '
        zmodload zsh/zpty
        zpty shell "TERM=dumb zsh -f -i"
        zpty -w shell "PS1=; unsetopt zle_bracketed_paste; setopt no_beep"
        zpty -w shell "autoload -U compinit; compinit -D -u; source <(plumb completion zsh)"
        zpty -w shell "show() { print -r -- \"<\$BUFFER>\"; BUFFER=; zle accept-line }; zle -N show"
        zpty -w shell "bindkey ^Xs show"
        zpty -w -n shell "$1"$'"'\\t\\030s'"'
        zpty -r -m shell line "*<plumb*>*" && print -r -- "$line"' zsh "$2" |
        tr -d '\r' | sed -n 's/.*<\(plumb.*\)>.*/\1/p' | tail -n 1)
    [ "$got" = "$wanted" ]
    result $? "zsh: $2: '$got'"
}

if command -v zsh >/dev/null; then
    in_zsh "plumb diagnose " "plumb dia"
    in_zsh "plumb matmul --layout=tn " "plumb matmul --layout=t"
    in_zsh "plumb train --set model.width=" "plumb train --set model.wi"
    in_zsh "plumb train --set recipe=deepseek-v3 " "plumb train --set recipe=d"
    in_zsh "plumb train run.yaml " "plumb train ru"
else
    echo "# zsh is not installed"
fi
try "no shell" 3 "$PLUMB" completion
says "no shell" "allowed: bash, zsh, fish"

# --- manual pages --------------------------------------------------------------------------

try "all pages" 0 "$PLUMB" man --out pages
for verb in $("$PLUMB" completion -- "" | cut -f 1) completion man; do
    "$PLUMB" man "$verb" >page
    cmp -s page "pages/plumb-$verb.1"
    result $? "plumb-$verb.1"
    for option in $("$PLUMB" completion -- "$verb" -- | cut -f 1); do
        grep -q -e "Fl -${option#--}\( \|\$\)" page || [ "$option" = --help ] ||
            result 1 "plumb-$verb.1 lacks $option"
    done
    holds pages/plumb.1 "plumb.1" ".It Xr plumb-$verb 1"
done
holds pages/plumb-train.1 "plumb-train.1" ".It Va optimizer.lr"
for page in pages/*; do
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$page" >complaints 2>&1 && [ ! -s complaints ]
        result $? "mandoc: $page $(head -n 1 complaints)"
    fi
    if command -v man >/dev/null && [ "$(man --version 2>/dev/null)" ]; then
        LC_ALL=C MANWIDTH=80 man --warnings -l "$page" >shown 2>complaints && [ -s shown ] &&
            [ ! -s complaints ]
        result $? "man -l: $page $(head -n 1 complaints)"
    fi
done
finish
