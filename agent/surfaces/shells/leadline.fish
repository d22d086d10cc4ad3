# Completion of leadline for fish. In ~/.config/fish/config.fish: leadline completion fish | source
function __leadline_complete
    # A line of several lines is one word here.
    set -l line (commandline -cp | string collect)
    for row in (command leadline completion-words "$LEADLINE_STATE_DIR" "$XDG_STATE_HOME" "$XDG_CONFIG_HOME" "$line" 2>/dev/null)
        if test "$row" = @files
            __fish_complete_path (commandline -ct)
        else
            printf '%s\n' $row
        end
    end
end
complete -c leadline -f -a '(__leadline_complete)'
