# Completion of leadline for bash. In ~/.bashrc: source <(leadline completion bash)
_leadline() {
    local line="${COMP_LINE:0:COMP_POINT}" cur="${COMP_WORDS[COMP_CWORD]}" word help full strip
    [[ "$cur" == [:=] ]] && cur=""
    # What bash takes for the last word may be only what follows a colon.
    full="${line##*[[:space:]]}"
    strip="${full%"$cur"}"
    COMPREPLY=()
    while IFS=$'\t' read -r word help; do
        if [[ "$word" == "@files" ]]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("${word#"$strip"}")
        fi
    done < <(leadline completion-words "${LEADLINE_STATE_DIR:-}" "${XDG_STATE_HOME:-}" "${XDG_CONFIG_HOME:-}" "$line" 2>/dev/null)
}
complete -F _leadline leadline
