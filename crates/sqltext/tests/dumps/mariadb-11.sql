/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19-11.8.6-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: harbour
-- ------------------------------------------------------
-- Server version	11.8.6-MariaDB

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;
/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */;

--
-- Sequence structure for `berth`
--

DROP SEQUENCE IF EXISTS `berth`;
CREATE SEQUENCE `berth` start with 1 minvalue 1 maxvalue 9223372036854775806 increment by 1 cache 1000 nocycle ENGINE=InnoDB;
DO SETVAL(`berth`, 1001, 0);

--
-- Table structure for table `*/ ships`
--

DROP TABLE IF EXISTS `*/ ships`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `*/ ships` (
  `VALUES` int(11) NOT NULL,
  `place` point NOT NULL,
  `s` timestamp(6) GENERATED ALWAYS AS ROW START,
  `e` timestamp(6) GENERATED ALWAYS AS ROW END,
  PRIMARY KEY (`VALUES`,`e`),
  PERIOD FOR SYSTEM_TIME (`s`, `e`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci WITH SYSTEM VERSIONING
 PARTITION BY SYSTEM_TIME 
PARTITIONS 2;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `*/ ships` WRITE;
/*!40000 ALTER TABLE `*/ ships` DISABLE KEYS */;
set autocommit=0;
INSERT INTO `*/ ships` (`VALUES`, `place`) VALUES
(1,0x00000000010100000000000000000000000000000000000000),
(2,'\0\0\0\0\Z\r\n');
INSERT INTO `*/ ships` (`VALUES`, `place`) VALUES
(3,'x');
/*!40000 ALTER TABLE `*/ ships` ENABLE KEYS */;
UNLOCK TABLES;
commit;
DELIMITER ;;
CREATE OR REPLACE DEFINER=`root`@`localhost` PACKAGE BODY `crane` AS
  FUNCTION f RETURN INT AS BEGIN RETURN 1; END;
END ;;
DELIMITER ;
/*M!100616 SET NOTE_VERBOSITY=@OLD_NOTE_VERBOSITY */;

-- Dump completed on 2026-11-20 21:00:00
