#compdef plumb
# zsh completion for plumb.  The program itself knows what can stand where
# (`plumb completion -- WORD...`); this only hands it the words and takes the answer.

_plumb() {
    local line
    local -a names shown open open_shown

    for line in "${(@f)$("${(Q)words[1]/#\~/$HOME}" completion -- \
        "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
        case $line in
        (:file) compset -P '*='; _files ;;
        (:dir) compset -P '*='; _files -/ ;;
        ('') ;;
        (*=$'\t'*|*=)
            open+=("${line%%$'\t'*}")
            open_shown+=("${line/$'\t'/  -- }") ;;
        (*)
            names+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }") ;;
        esac
    done
    (( $#names )) && compadd -l -d shown -a names
    (( $#open )) && compadd -S '' -l -d open_shown -a open
    return 0
}

if [[ $funcstack[1] == _plumb ]]; then
    _plumb "$@"
else
    compdef _plumb plumb
fi
