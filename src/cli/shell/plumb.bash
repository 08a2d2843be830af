# bash completion for plumb.  The program itself knows what can stand where
# (`plumb completion -- WORD...`); this only hands it the words and takes the answer.

_plumb() {
    local program=${COMP_WORDS[0]/#\~/$HOME} word words=() glue= line last cut

    # bash parts words at = and :, the program wants them whole
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ $word =~ ^[=:]+$ && ${#words[@]} -gt 0 ]]; then
            words[-1]+=$word
            glue=1
        elif [[ $glue ]]; then
            words[-1]+=$word
            glue=
        else
            words+=("$word")
        fi
    done
    last=${words[-1]}
    cut=${last%"${last##*[=:]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r line _; do
        case $line in
        :file | :dir)
            compopt -o filenames 2>/dev/null
            while read -r word; do
                COMPREPLY+=("$word")
            done < <(compgen -"${line:1:1}" -- "${last#"$cut"}")
            ;;
        *)
            [[ $line != *= ]] || compopt -o nospace 2>/dev/null
            COMPREPLY+=("${line#"$cut"}")
            ;;
        esac
    done < <("$program" completion -- "${words[@]}" 2>/dev/null)
}

complete -F _plumb plumb
