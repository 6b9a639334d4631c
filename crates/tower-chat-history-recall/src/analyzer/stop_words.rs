//! Words that are too frequent to say what a text is about.

use super::Language;

/// Returns the stop words of a language in lower case, separated by white space. It is empty if there is no list.
pub(super) const fn stop_words(language: Language) -> &'static str {
    match language {
        Language::English => ENGLISH,
        Language::German => GERMAN,
        Language::French => FRENCH,
        Language::Spanish => SPANISH,
        Language::Italian => ITALIAN,
        Language::Portuguese => PORTUGUESE,
        Language::Dutch => DUTCH,
        _ => "",
    }
}

const ENGLISH: &str = "
    a about after all also am an and any are aren't as at be because been before being but by can can't could couldn't
    did didn't do does doesn't doing don't for from had has have haven't having he her here hers him his how i if in into
    is isn't it its just let me more most my no nor not of on or our ours out own she should so some such than that the
    their theirs them then there these they this those to too up us very was wasn't we were what when where which while
    who whom why will with won't would you your yours";

const GERMAN: &str = "
    aber als also am an auch auf aus bei bin bis bist da das dass dein dem den der des die dies diese dieser dir doch
    du durch ein eine einem einen einer er es euch für hab habe haben hat hatte hier ich ihm ihn ihr im in ist ja kann
    kein keine man mein meine mich mir mit nach nicht noch nur oder schon sehr sein seine sich sie sind so um und uns
    unser vom von vor wann warum was wenn wer werden wie wir wird wo zu zum zur über";

const FRENCH: &str = "
    ai as au aux avec avez avons c'est ce cela ces cet cette comme d'un d'une dans de des donc du elle elles en es est
    et eu eux il ils j'ai je la le les leur lui ma mais me mes moi mon même n'est ne nos notre nous on ont ou où par
    pas pour pourquoi qu'est quand que quel quelle qui quoi sa se ses si son sont sur ta te tes toi ton tu un une vos
    votre vous y à été être";

const SPANISH: &str = "
    a al algo como con cual cuando cuál cuándo cómo de del desde donde dónde e el ella ellas ellos en era es esa ese
    eso esta este esto está están fue ha han hay he la las le les lo los me mi mis muy más nada ni no nos o os para
    pero por porque que quien quién qué se ser si sin sobre soy su sus también te tengo ti tiene tu tus tú un una uno
    y ya yo él";

const ITALIAN: &str = "
    a ad ai al alla alle allo anche che chi ci co come con cosa cui da dal dalla degli dei del della delle dello di
    dove e ed era gli ha hai hanno ho i il in io la le lei li lo loro lui ma mi mia mie mio ne negli nei nel nella noi
    non o per perché più quale quando quello questa questo qui se sei si sia sono su sua sul sulla suo te ti tu tua
    tuo un una uno vi voi è";

const PORTUGUESE: &str = "
    a ao aos as até com como da das de dela dele do dos e ela elas ele eles em entre era essa esse esta este eu foi há
    isso isto já lhe mais mas me meu meus minha muito na nas nem no nos não nós o onde os ou para pela pelo por porque
    qual quando que quem se sem ser seu seus sua são só também te tem tenho teu tu um uma você vocês à às é";

const DUTCH: &str = "
    aan al als bij ben bent dan dat de deze die dit doen door dus een en er geen had heb hebben heeft hem het hier hij
    hoe hun ik in is ja je jij jou jouw kan maar me meer met mij mijn na naar niet nog nu of om omdat onder ons ook op
    over te toen tot u uit uw van veel voor waar waarom wanneer was wat we wel werd wie wij wil worden zal ze zich zij
    zijn zo";
