# Completion of leadline for fish. In ~/.config/fish/config.fish: leadline completion fish | source
function __leadline_complete
    for row in (leadline completion-words "$LEADLINE_STATE_DIR" "$XDG_STATE_HOME" "$XDG_CONFIG_HOME" (commandline -cp) 2>/dev/null)
        if test "$row" = @files
            __fish_complete_path (commandline -ct)
        else
            echo $row
        end
    end
end
complete -c leadline -f -a '(__leadline_complete)'
