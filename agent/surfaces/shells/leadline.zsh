#compdef leadline
# Completion of leadline for zsh. In ~/.zshrc, after compinit: source <(leadline completion zsh)
# or as the file _leadline in a folder of fpath.
_leadline() {
    local word help line
    local -a found told
    # The command at hand alone, whatever stands before it in the line, as far as the cursor.
    line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    while IFS=$'\t' read -r word help; do
        if [[ "$word" == "@files" ]]; then
            _files
        else
            found+=("$word")
            told+=("$word${help:+  -- $help}")
        fi
    done < <(command leadline completion-words "${LEADLINE_STATE_DIR:-}" "${XDG_STATE_HOME:-}" "${XDG_CONFIG_HOME:-}" "$line" 2>/dev/null)
    (( ${#found} )) && compadd -l -d told -a found
}
# Read from a folder of fpath, this file is the function at the first Tab.
if [[ "${funcstack[1]}" == _leadline ]]; then
    _leadline "$@"
else
    compdef _leadline leadline
fi
