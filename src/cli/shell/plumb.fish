# fish completion for plumb.  The program itself knows what can stand where
# (`plumb completion -- WORD...`); this only hands it the words and takes the answer.

function __plumb_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l lead (string match -r -- '^--[a-z-]*=' $last)
    set -l rest (string replace -r -- '^--[a-z-]*=' '' $last)
    for line in ($words[1] completion -- $words[2..-1] $last 2>/dev/null)
        switch $line
            case :file
                for path in (__fish_complete_path $rest)
                    echo "$lead$path"
                end
            case :dir
                for path in (__fish_complete_directories $rest '')
                    echo "$lead$path"
                end
            case '*'
                echo $line
        end
    end
end

complete -c plumb -f -a '(__plumb_complete)'
