#compdef leadline
# Completion of leadline for zsh. In ~/.zshrc, after compinit: source <(leadline completion zsh)
_leadline() {
    local word help
    local -a found told
    while IFS=$'\t' read -r word help; do
        if [[ "$word" == "@files" ]]; then
            _files
        else
            found+=("$word")
            told+=("$word${help:+  -- $help}")
        fi
    done < <(leadline completion-words "${LEADLINE_STATE_DIR:-}" "${XDG_STATE_HOME:-}" "${XDG_CONFIG_HOME:-}" "$LBUFFER" 2>/dev/null)
    (( ${#found} )) && compadd -l -d told -a found
}
compdef _leadline leadline
